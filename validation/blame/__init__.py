"""What a wait is booked to, against what freeing that saves."""
