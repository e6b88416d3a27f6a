"""Compilation of functions that only compiled functions call, to LLVM code without machine code.

By default, Numba optimises every function together with all functions that it calls and generates
machine code for it, and then does the same again in its callers, up to the outermost. Only the
outermost function's machine code is ever run. Here a function is lowered to LLVM code once, and
linked into its callers; optimisation and machine code are left to the outermost one. That takes a
fifth (UCB) to a third (Thompson sampling) off the compilation time of the fast paths, and their
machine code is not slower.
"""

from __future__ import annotations

import functools
import importlib
import threading
from typing import Any

from numba import _dynfunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher

_lock = threading.Lock()


class LinkedCode(JITCodeLibrary):  # type: ignore[misc]
    """The LLVM code of a function, and of the functions that it calls, to be linked into others."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Optimise the functions that a module defines, with one pass manager for all.

        Numba makes a new one for each, also for the functions that a module only declares.
        """
        ll_module.data_layout = self._codegen._data_layout
        manager, builder = self._codegen._function_pass_manager()
        for function in ll_module.functions:
            if not function.is_declaration:
                manager.run(function, builder)

    def finalize(self) -> None:
        """Link the called functions, without optimisation and without machine code."""
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


class LinkedCodeCompiler(Compiler):  # type: ignore[misc]
    """Numba's compiler for functions that can't be called from Python: a `pipeline_class`."""

    def compile_extra(self, func: Any) -> Any:
        """Compile a function to `LinkedCode`."""
        state = self.state
        state.library = LinkedCode(state.targetctx.codegen(), func.__qualname__)
        state.flags.no_compile = True
        state.flags.no_cpython_wrapper = True
        result = super().compile_extra(func)
        # Numba requires an object for calls from Python. This one has no machine code behind it.
        module, name = result.fndesc.lookup_module(), func.__name__
        stub = _dynfunc.make_function(module, name, "", 0, result.environment, (result.library,))
        state.targetctx.insert_user_function(stub, result.fndesc, [result.library])
        return result._replace(entry_point=stub)


class InternalFunction(CPUDispatcher):  # type: ignore[misc]
    """A function that only compiled functions can call: they link its code."""

    def __init__(
        self, py_func: Any, locals: Any = None, targetoptions: dict[str, Any] | None = None
    ) -> None:
        super().__init__(py_func, locals, targetoptions, pipeline_class=LinkedCodeCompiler)

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Raise an error: the stub that Numba would call ends the process."""
        raise TypeError(f"{self.__qualname__} can only be called from compiled code")


class CallableFromPython(CPUDispatcher):  # type: ignore[misc]
    """A compiled function that Python can call, with a twin that compiled functions link."""

    def __init__(self, py_func: Any, options: dict[str, Any]) -> None:
        super().__init__(py_func, targetoptions=options | {"nopython": True})

    @functools.cached_property
    def _linked(self) -> InternalFunction:
        """The twin. Making all of them took a tenth of the time to import the package."""
        made = InternalFunction(self.py_func, targetoptions=self.targetoptions)
        first: InternalFunction = self.__dict__.setdefault("_linked", made)  # of several threads
        return first

    @property
    def _numba_type_(self) -> Any:
        return self._linked._numba_type_

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        """Return the machine code for arguments of types that were not used before.

        That of Entice's own functions is cached on disk, because every process would compile it.
        """
        # Imported here, because the cache compiles with this class.
        from entice.jit.specialize import get_compiled, is_own

        cacheable = not kws and len(args) == self.py_func.__code__.co_argcount
        # The machine code of a function that takes functions holds their addresses.
        if not (cacheable and is_own(self)) or any(isinstance(a, CPUDispatcher) for a in args):
            return super()._compile_for_args(*args, **kws)
        (result,) = get_compiled(self, (), args).overloads.values()
        with _lock:
            # Two entries for the same types would be ambiguous: Numba would use neither.
            if result.signature.args not in self.overloads:
                self.add_overload(result)
        return result.entry_point

    def __reduce__(self) -> Any:
        return _find, (self.py_func.__module__, self.py_func.__qualname__)


def _find(module: str, name: str) -> Any:
    """Import a compiled function: a pickle of one holds its name only."""
    return getattr(importlib.import_module(module), name)
