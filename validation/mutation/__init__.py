"""Random changes of a figure in the code: which of them do the tests notice?"""
