"""The paper, the worlds and the service once more in plain Python: references for the tests."""
