"""SCALE-Sim's topologies as workloads, its configurations as accelerators."""
