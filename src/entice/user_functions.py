"""User-defined functions in a spec: import, validation and labels."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from entice.checks import field_name
from entice.errors import InputError, StudyError
from entice.jit.decorators import import_path, is_compiled, plain_python

_module_folder: ContextVar[Path | None] = ContextVar("beside", default=None)
_included: dict[str, ModuleType] = {}
_allow_missing: ContextVar[bool] = ContextVar("standing_in", default=False)


def set_function(spec: msgspec.Struct, field: str, arguments: tuple[str, ...]) -> None:
    """Convert a field, a Python function or "module:name", to a function of these arguments."""
    name, given = field_name(spec, field), getattr(spec, field)
    signature = f"({', '.join(arguments)})"
    if isinstance(given, str) and _allow_missing.get():
        try:
            function = _find(name, given)
        except InputError:
            msgspec.structs.force_setattr(spec, field, _placeholder(given))
            return
    else:
        function = _find(name, given) if isinstance(given, str) else given
    if not (inspect.isfunction(function) or is_compiled(function)):
        raise InputError(
            name, f'must be a Python function of {signature}, or its "module:name"', given=given
        )
    plain = plain_python(function)
    parameters = inspect.signature(plain).parameters.values()
    if len(parameters) != len(arguments) or any(p.kind is p.KEYWORD_ONLY for p in parameters):
        raise InputError(
            name,
            f"must take the {len(arguments)} arguments of {field}{signature}",
            given=f"{plain.__name__}{inspect.signature(plain)}",
        )
    msgspec.structs.force_setattr(spec, field, function)


def _find(name: str, given: str) -> Any:
    module_name, _, path = given.partition(":")
    if not module_name or module_name.startswith(".") or not path:
        raise InputError(name, 'must read "module:name"', given=given)
    _unload_namesake(module_name)
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:  # the user's module may raise anything
        raise InputError(
            name,
            f"names a module that can't be imported ({type(error).__name__}: {error})",
            given=given,
            todo="Put its file into the study's folder, or on the Python path.",
        ) from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise InputError(name, f"does not exist in {module_name!r}", given=given)
        found = getattr(found, part)
    return found


def include(path: Path) -> ModuleType:
    """Load a file as a module for "module:name"; it takes precedence over others of its name."""
    if path.suffix != ".py" or not path.stem.isidentifier():
        raise InputError("include", "must be a Python file, such as my_policy.py", given=str(path))
    if not path.is_file():
        raise InputError("the included file", "must exist", given=str(path))
    path, name = path.resolve(), path.stem
    before = sys.modules.get(name)
    is_own = name in _included or getattr(before, "__file__", None) == str(path)
    if name in sys.stdlib_module_names or (before is not None and not is_own):
        rule = "must not have the name of a standard-library module or of an imported package"
        raise InputError("the included file", rule, given=path.name, todo="Give it another name.")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:  # the user's module may raise anything, even SystemExit
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before
        if isinstance(error, KeyboardInterrupt):
            raise
        rule = f"can't be imported ({type(error).__name__}: {error})"
        raise InputError("the included file", rule, given=str(path)) from error
    _included[name] = module
    return module


def included() -> list[ModuleType]:
    """Return the modules loaded by `include`."""
    return list(_included.values())


def _unload_namesake(module_name: str) -> None:
    """Unload a module of this name that was loaded from the folder of another study."""
    folder, module = _module_folder.get(), sys.modules.get(module_name)
    if folder is not None and module is not None and module is not _included.get(module_name):
        here = folder / f"{module_name}.py"
        if here.is_file() and getattr(module, "__file__", None) != str(here):
            del sys.modules[module_name]
            importlib.invalidate_caches()


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Make the modules in a folder, such as a study's, importable for "module:name"."""
    token = _module_folder.set(folder)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        _module_folder.reset(token)


@contextmanager
def allow_missing_functions() -> Iterator[None]:
    """Replace missing functions by placeholders, so that a result can be read anywhere."""
    token = _allow_missing.set(True)
    try:
        yield
    finally:
        _allow_missing.reset(token)


def _placeholder(given: str) -> Callable[..., Any]:
    def missing(*values: Any) -> None:
        """Placeholder of a function that was not found."""

    missing.__name__ = given.rpartition(":")[2].rpartition(".")[2]
    missing.__module__, _, missing.__qualname__ = given.partition(":")
    missing.__dict__["is_placeholder"] = True
    return missing


def is_placeholder(function: Callable[..., Any]) -> bool:
    """Return whether a function is a placeholder for one that was not found."""
    return getattr(function, "is_placeholder", False)


def ensure_found(function: Callable[..., Any]) -> None:
    """Reject a placeholder: the function itself was not found."""
    if is_placeholder(function):
        raise StudyError(f"{import_path(function)} was not found when this study was read.")


def custom_label(function: Callable[..., Any], params: Sequence[float]) -> str:
    """Return the label of a user's function and its parameters, such as `fading(2)`."""
    name = plain_python(function).__name__
    return f"{name}({', '.join(f'{p:g}' for p in params)})" if params else name
