"""Applications on top of the public interface."""
