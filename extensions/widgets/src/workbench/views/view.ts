// A view: an element, and how to show the cursor's state in it.

export interface View {
  readonly element: HTMLElement;
  /** Shows the state; called only while the view can be seen. */
  draw(): void;
}
