"""Spark data frames as sources of rows."""
