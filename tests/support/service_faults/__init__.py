"""What can go wrong under the service, made to happen on purpose: the table of `make faults`."""
