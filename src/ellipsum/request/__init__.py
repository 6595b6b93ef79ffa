"""The request of a caller, checked before any data is opened."""
