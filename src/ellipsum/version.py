"""The one place where the version is written."""

VERSION = "0.2.0"
