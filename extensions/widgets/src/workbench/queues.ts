// What stands in the pipes at a position, who waits and why: `queues_at` and the lane states of a session.
import type { Cursor } from "./cursor";
import type { EventRow } from "./payload";
import { countUpTo, Event, Kind, type Recording } from "./recording";

export interface QueueEntry {
  readonly slot: number;
  readonly value: number | null;
  readonly shape: readonly number[];
  readonly valid: readonly number[];
  readonly dtype: string;
  readonly pushedBy: number;
  readonly pushedAt: number;
  readonly heldBy: number | null;
}

export interface Waiter {
  readonly lane: number;
  readonly pipe: string;
  readonly operation: string;
  readonly reason: string;
  readonly since: number;
}

export interface QueueState {
  readonly pipe: string;
  readonly block: number | null;
  readonly entries: readonly QueueEntry[];
  readonly depth: number | null;
  readonly pushed: number;
  readonly popped: number;
  readonly freed: number;
  readonly waiters: readonly Waiter[];
}

interface Ring {
  readonly pipe: string;
  readonly block: number | null;
  readonly entries: Map<number, readonly [push: EventRow, pop: EventRow | null]>;
  depth: number | null;
  pushed: number;
  popped: number;
  freed: number;
}

interface Replay {
  events: number;
  rings: Map<string, Ring>;
  waits: Map<string, EventRow>;
}

const CHECKPOINT = 512;

/** Replays queue events to any position; checkpoints keep a jump as cheap as a step. */
export class Queues {
  readonly #freed: ReadonlySet<string>;
  readonly #checkpoints: Replay[] = [{ events: 0, rings: new Map(), waits: new Map() }];
  #last: readonly [position: number, queues: readonly QueueState[]] | undefined;

  constructor(readonly recording: Recording) {
    this.#freed = new Set(recording.data.events.filter((e) => e[1] === Event.Free).map((e) => e[3]));
  }

  /** Every pipe at a position; of other blocks than the step's only those in use. */
  at(position: number): readonly QueueState[] {
    if (this.#last?.[0] === position) return this.#last[1];
    const state = this.#replayed(countUpTo(this.recording.eventSteps, position));
    const block = position ? this.recording.blockOf(position) : -1;
    const waiting = waitingIn(state);
    const all = [...state.rings.values()].map((ring) => this.#state(ring, waiting));
    const here = (q: QueueState): boolean => q.block === null || q.block === (block < 0 ? null : block);
    const queues = all.filter((q) => here(q) || q.entries.length > 0 || q.waiters.length > 0);
    this.#last = [position, queues];
    return queues;
  }

  /** The waits that lanes are in at a position: what they wait for has not come about. */
  waits(position: number): readonly EventRow[] {
    return waitingIn(this.#replayed(countUpTo(this.recording.eventSteps, position)));
  }

  #replayed(count: number): Replay {
    const at = Math.min(Math.floor(count / CHECKPOINT), this.#checkpoints.length - 1);
    const state = copied(this.#checkpoints[at] as Replay);
    for (; state.events < count; state.events++) {
      if (state.events % CHECKPOINT === 0 && state.events / CHECKPOINT === this.#checkpoints.length) {
        this.#checkpoints.push(copied(state));
      }
      this.#play(state, this.recording.data.events[state.events] as EventRow);
    }
    return state;
  }

  #play(state: Replay, event: EventRow): void {
    const [, kind, lane, pipe, , , , , , block] = event;
    if (kind === Event.Reset) {
      for (const [key, ring] of state.rings) if (ring.block === block) state.rings.delete(key);
      for (const key of state.waits.keys()) if (key.endsWith(`/${block}`)) state.waits.delete(key);
      return;
    }
    const key = `${block}/${pipe}`;
    let ring = state.rings.get(key);
    if (!ring) {
      ring = { pipe, block, entries: new Map(), depth: null, pushed: 0, popped: 0, freed: 0 };
      state.rings.set(key, ring);
    }
    if (kind === Event.Blocked || kind === Event.Resumed) {
      state.waits.delete(`${lane}/${block}`);
      if (kind === Event.Blocked) state.waits.set(`${lane}/${block}`, event);
    } else {
      this.#move(ring, event);
    }
  }

  #move(ring: Ring, event: EventRow): void {
    const slot = event[4] ?? ring.pushed;
    const held = ring.entries.get(slot);
    if (event[1] === Event.Push) {
      ring.entries.delete(slot);
      ring.entries.set(slot, [event, null]);
      ring.pushed++;
      ring.depth = event[6] ?? ring.depth;
    } else if (event[1] === Event.Pop) {
      ring.popped++;
      if (this.#freed.has(event[3]) && held) ring.entries.set(slot, [held[0], event]);
      else ring.entries.delete(slot);
    } else if (event[1] === Event.Free) {
      ring.freed++;
      ring.entries.delete(slot);
    }
  }

  #state(ring: Ring, waiting: readonly EventRow[]): QueueState {
    const entries = [...ring.entries].map(([slot, [push, pop]]): QueueEntry => {
      const tensor = this.recording.tensor(push[5]);
      const shape = tensor?.[2] ?? [];
      const valid = tensor ? (this.recording.valid(push[5] as number, push[0]) ?? shape) : [];
      const heldBy = pop ? pop[2] : null;
      return { slot, value: push[5], shape, valid, dtype: tensor?.[1] ?? "", pushedBy: push[2], pushedAt: push[0], heldBy };
    });
    const waiters = waiting.filter((e) => e[9] === ring.block && e[3] === ring.pipe).map(waiterOf);
    return { ...ring, entries, waiters };
  }
}

function waitingIn(state: Replay): EventRow[] {
  return [...state.waits.values()].filter((e) => !letsOn(state.rings.get(`${e[9]}/${e[3]}`), e[8]));
}

/** Whether a lane that waits at a ring could go on: its turn has not come yet. */
function letsOn(ring: Ring | undefined, reason: string): boolean {
  if (!ring) return false;
  if (reason === "empty") return ring.pushed > ring.popped;
  return reason === "full" && ring.depth !== null && ring.pushed - ring.freed < ring.depth;
}

const replays = new WeakMap<Recording, Queues>();

function copied(state: Replay): Replay {
  const rings = new Map([...state.rings].map(([key, ring]) => [key, { ...ring, entries: new Map(ring.entries) }]));
  return { events: state.events, rings, waits: new Map(state.waits) };
}

function waiterOf(event: EventRow): Waiter {
  return { lane: event[2], pipe: event[3], operation: event[7], reason: event[8], since: event[0] };
}

export type LaneStatus = "not started" | "ready" | "running" | "waits" | "done" | "failed";

export interface LaneState {
  readonly lane: number;
  readonly status: LaneStatus;
  readonly position: number;
  readonly waiting: Waiter | null;
}

/** What a lane does at the cursor. */
export function laneState(cursor: Cursor, lane: number): LaneState {
  const { recording } = cursor;
  const steps = cursor.laneSteps(lane);
  const at = countUpTo(steps, cursor.position);
  const last = steps[at - 1] ?? 0;
  const waiting = waitOf(recording, lane, last ? recording.blockOf(last) : -1, cursor.position);
  let status: LaneStatus = "ready";
  if (last === 0) status = "not started";
  else if (recording.kindOf(last) === Kind.Failed) status = "failed";
  else if (waiting) status = "waits";
  else if (steps[at] === undefined) status = "done";
  else if (last === cursor.position) status = "running";
  return { lane, status, position: last, waiting };
}

/** The wait a lane is in. */
function waitOf(recording: Recording, lane: number, block: number, position: number): Waiter | null {
  let queues = replays.get(recording);
  if (!queues) replays.set(recording, (queues = new Queues(recording)));
  const found = queues.waits(position).find((e) => e[2] === lane && (e[9] === null || e[9] === block));
  return found ? waiterOf(found) : null;
}
