"""Runs users' files with the stand-ins importable, and puts everything back afterwards."""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, ModuleType

from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.ir.span import Span

ROOTS = ("pypto", "pypto_pro", "golden")
"""Top-level names that the lab stands in for."""

WORLD_ATTRIBUTE = "_pypto_lab_world"


def real_pypto_installed() -> bool:
    """True when the compiler's own `pypto` (hw-native-sys) can be imported; PyPI's unrelated `pypto` does not count."""
    loaded = sys.modules.get("pypto")
    if loaded is not None and loaded is _stand_in_modules.get("pypto"):
        return False
    spec = importlib.util.find_spec("pypto") if loaded is None else loaded.__spec__
    folders = list((spec.submodule_search_locations if spec else None) or [])
    return any((Path(f) / "language" / "__init__.py").exists() or (Path(f) / "language.py").exists() for f in folders)


@contextlib.contextmanager
def stand_ins(shadow_real: bool = False) -> Iterator[None]:
    """Makes `pypto`, `pypto_pro` and `golden` importable as the lab's stand-ins while the block runs.

    A real installed compiler is left alone unless `shadow_real`. What `sys.modules` held before comes back afterwards.
    """
    if not shadow_real and real_pypto_installed():
        yield
        return
    saved = _take(_is_root)
    sys.modules.update(_modules())
    try:
        yield
    finally:
        _take(_is_root)
        sys.modules.update(saved)


class World:
    """The modules of one user's file: it and the sibling modules it imported, importable again while entered.

    Two files of one name in different folders (`config.py`) so never meet. The file's folder is on the import path,
    and the folder above the package it lies in, so that relative imports work too. The folders above, up to the
    project's own, come last on it: authors put one of them on `PYTHONPATH`.
    """

    def __init__(self, file: Path, shadow_real: bool = False) -> None:
        top = file.parents[len(_package_of(file))]
        self.folders = [file.parent] if top == file.parent else [file.parent, top]
        self.last_folders = [folder for folder in _project_folders(file) if folder not in self.folders]
        self.shadow_real = shadow_real
        self.modules: dict[str, ModuleType] = {}
        self._stack: list[contextlib.ExitStack] = []

    def __enter__(self) -> World:
        stack = contextlib.ExitStack()
        stack.enter_context(stand_ins(self.shadow_real))
        before = _take(lambda name: name in self.modules)
        sys.modules.update(self.modules)
        known, path = set(sys.modules), list(sys.path)
        sys.path[:] = [*map(str, self.folders), *path, *map(str, self.last_folders)]
        stack.callback(self._leave, known, path, before)
        self._stack.append(stack)
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.pop().close()

    def import_namesake(self, file: Path) -> bool:
        """Imports the package that has a file's name and that the file imports from (`contract.py`: `from
        contract.base import ...`), found in a folder above; False where there is none."""
        name = file.stem
        tree = ast.parse(file.read_text(encoding="utf-8"))
        wanted = any(isinstance(s, ast.ImportFrom) and (s.module or "").startswith(name + ".") for s in tree.body)
        if not wanted or not any((folder / name / "__init__.py").exists() for folder in self.last_folders):
            return False
        before = list(sys.path)
        sys.path[:] = [p for p in before if Path(p or ".").resolve() not in self.folders]
        try:
            importlib.import_module(name)
        finally:
            sys.path[:] = before
        return True

    def _leave(self, known: set[str], path: list[str], before: dict[str, ModuleType]) -> None:
        """Keeps the user's own new modules for the next time and forgets them in `sys.modules`."""
        added = [Path(p or ".").resolve() for p in sys.path if p not in path] + self.folders
        sys.path[:] = path
        mine = {n: m for n, m in sys.modules.items() if n not in known and not _is_ours(n) and _lies_in(m, added)}
        self.modules.update(mine)
        _take(lambda name: name in self.modules)
        sys.modules.update(before)


def load_module(path: str | Path, *, shadow_real: bool = False) -> ModuleType:
    """Executes a user's file with the stand-ins importable and its folder on the import path, and returns its module.

    Raises LabError E503 when the file is missing, E510 when it is not Python, E506 when it stops with an exception of
    its own; a LabError of the lab passes through.
    """
    file = existing_file(path)
    world = World(file, shadow_real)
    module = new_module(file, file.stem)
    setattr(module, WORLD_ATTRIBUTE, world)
    code = _compiled(file)
    with world, user_errors(file):
        if not world.import_namesake(file):
            sys.modules.setdefault(file.stem, module)
            world.modules[file.stem] = module
        exec(code, module.__dict__)
    return module


def world_of(module: ModuleType) -> contextlib.AbstractContextManager[object]:
    """The surroundings a loaded module needs when its functions import things late."""
    world: World | None = getattr(module, WORLD_ATTRIBUTE, None)
    return world if world is not None else stand_ins(shadow_real=True)


def run_main(path: str | Path, argv: Sequence[str] = (), *, shadow_real: bool = False) -> int:
    """Runs a user's file as `__main__` with `argv` as its arguments; returns its exit status.

    Raises LabError as :func:`load_module` does; an AssertionError of the file is one too, with code E507.
    """
    file = existing_file(path)
    code, module = _compiled(file), new_module(file, "__main__")
    argv_before, main_before = sys.argv, sys.modules.get("__main__")
    sys.argv = [str(path), *argv]
    try:
        with World(file, shadow_real), user_errors(file):
            sys.modules["__main__"] = module
            exec(code, module.__dict__)
    except SystemExit as stop:
        return _status(stop)
    finally:
        sys.argv = argv_before
        if main_before is not None:
            sys.modules["__main__"] = main_before
    return 0


def new_module(file: Path, name: str) -> ModuleType:
    """An empty module for a file, in the package the file lies in."""
    module = ModuleType(name)
    module.__file__ = str(file)
    module.__package__ = ".".join(_package_of(file)) or None
    return module


_PROJECT_MARKS = (".git", "pyproject.toml", "setup.py")


def _project_folders(file: Path) -> list[Path]:
    """Folders above a file's, innermost first, up to the one that holds its project; none for a file in no project."""
    above = list(file.parents)
    top = next((i for i, folder in enumerate(above) if any((folder / m).exists() for m in _PROJECT_MARKS)), None)
    return [] if top is None else above[: top + 1]


def _package_of(file: Path) -> list[str]:
    """Names of the packages a file lies in, outermost first: the folders above it that hold an `__init__.py`."""
    names: list[str] = []
    folder = file.parent
    while (folder / "__init__.py").exists():
        names.insert(0, folder.name)
        folder = folder.parent
    return names


@contextlib.contextmanager
def user_errors(file: Path) -> Iterator[None]:
    """Turns an exception that a user's file raised into a LabError that points at the user's line."""
    try:
        yield
    except (LabError, SystemExit, KeyboardInterrupt):
        raise
    except Exception as error:
        raise describe_exception(error, file) from error


def describe_exception(error: BaseException, file: Path) -> LabError:
    """A user's exception as a diagnostic: what was raised, at the last line that is theirs."""
    span = _last_user_line(error, file.parent)
    name = type(error).__name__
    text = f"{error}".strip()
    message = f"{name}: {text}" if text else name
    hint = None
    if isinstance(error, ModuleNotFoundError) and error.name:
        root = error.name.partition(".")[0]
        hint = (
            f"the lab's stand-in for {root} has no module `{error.name}`"
            if root in ROOTS
            else f"install `{root}`, or put it next to the file"
        )
    code = "E507" if isinstance(error, AssertionError) else "E506"
    sources = {span.file: Path(span.file).read_text(encoding="utf-8")} if span and Path(span.file).exists() else {}
    return LabError([Diagnostic(code, message, span, hint=hint)], sources)


def _last_user_line(error: BaseException, folder: Path) -> Span | None:
    """The innermost line under the user's folder; the outermost one of any file outside the lab otherwise."""
    found: Span | None = None
    lab = str(Path(__file__).resolve().parents[1])
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith(("<", lab)) and Path(name).exists() and _under(Path(name), folder):
            line = trace.tb_lineno
            found = Span(name, line, _first_column(name, line), line, 10_000)
        trace = trace.tb_next
    return found


def _first_column(name: str, line: int) -> int:
    import linecache

    text = linecache.getline(name, line)
    return len(text) - len(text.lstrip()) + 1


def _status(stop: SystemExit) -> int:
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code
    print(stop.code, file=sys.stderr)
    return 1


def existing_file(path: str | Path) -> Path:
    """The resolved path of a file. Raises LabError E503 when there is none."""
    file = Path(path).expanduser()
    if not file.is_file():
        what = "is a folder" if file.is_dir() else "does not exist"
        raise LabError([Diagnostic("E503", f"{path} {what}", hint="give the path of a Python file with a kernel")])
    return file.resolve()


def _compiled(file: Path) -> CodeType:
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise LabError(
            [Diagnostic("E503", f"{file} is not UTF-8 text: {error.reason} at byte {error.start}")]
        ) from None
    try:
        return compile(text, str(file), "exec")
    except (SyntaxError, ValueError) as error:
        raise syntax_error(error, str(file), text) from None


def syntax_error(error: SyntaxError | ValueError, file: str, text: str) -> LabError:
    """A Python syntax error as a diagnostic."""
    line = getattr(error, "lineno", None) or 1
    column = max(getattr(error, "offset", None) or 1, 1)
    message = getattr(error, "msg", None) or str(error)
    return LabError([Diagnostic("E510", message, Span(file, line, column, line, column + 1))], {file: text})


def _is_root(name: str) -> bool:
    return name.partition(".")[0] in ROOTS


def _is_ours(name: str) -> bool:
    """Stand-ins and the lab itself: never a user's module, wherever they lie."""
    return _is_root(name) or name.partition(".")[0] == "pypto_lab"


def _take(chosen: Callable[[str], bool]) -> dict[str, ModuleType]:
    """Removes the chosen modules from `sys.modules` and returns them."""
    names = [name for name in sys.modules if chosen(name)]
    return {name: sys.modules.pop(name) for name in names}


_stand_in_modules: dict[str, ModuleType] = {}


def _modules() -> dict[str, ModuleType]:
    """All stand-in modules by the name users import them under."""
    if not _stand_in_modules:
        for root in ROOTS:
            package = importlib.import_module(f"pypto_lab.compat.{root}")
            _stand_in_modules[root] = package
            for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
                short = root + found.name[len(package.__name__) :]
                _stand_in_modules[short] = importlib.import_module(found.name)
    return _stand_in_modules


def _lies_in(module: ModuleType, folders: Sequence[Path]) -> bool:
    file = getattr(module, "__file__", None)
    places = [file] if file else list(getattr(module, "__path__", []))
    return any(_under(Path(place), folder) for place in places for folder in folders)


def _under(place: Path, folder: Path) -> bool:
    """True when `place` is in `folder`, but not in an environment installed below it."""
    resolved = place.resolve()
    return resolved.is_relative_to(folder) and "site-packages" not in resolved.parts
