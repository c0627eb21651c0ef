"""Poisson factorization under the process: variational engine, exact sampler, evidence, search."""
