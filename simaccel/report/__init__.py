"""Printed reports: tables of results, comparisons, forecasts and catalogues."""
