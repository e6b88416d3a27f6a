"""The result of a study: tables, files, figures."""
