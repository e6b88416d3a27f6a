"""A campaign's rules, state, events and offers. No database and no HTTP."""
