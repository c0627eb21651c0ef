"""The model: process, slabs and prior."""
