file(SIZE "${FILE}" bytes)
math(EXPR megabytes "(${bytes} + 500000) / 1000000")
message(STATUS "${FILE}: ${megabytes} MB")
