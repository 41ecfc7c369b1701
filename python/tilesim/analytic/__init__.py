"""Closed-form models: products, attention, convolution, vector operations; calibration; roofline and crossover."""
