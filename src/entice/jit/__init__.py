"""Compilation: decorators, the cache of machine code, and the compilation of users' functions."""
