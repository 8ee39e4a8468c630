module keyvalue

go 1.21
