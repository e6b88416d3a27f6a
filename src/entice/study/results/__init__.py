"""The result of a study: frames, files, figures."""
