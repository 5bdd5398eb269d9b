"""One run or many: simulate, record, forecast, check, what-if, differences."""
