"""Operations: verification, export, invariants, metrics, warm-up, conformance checks."""
