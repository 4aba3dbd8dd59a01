module rollcall/program

go 1.26
