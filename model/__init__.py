"""The reference model: pure state machines and the words in which they speak of an implementation."""
