"""What a caller asks for, checked before any data is opened."""
