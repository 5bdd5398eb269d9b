"""What is printed: tables of results, comparisons, forecasts and catalogues."""
