module rollcall/zk

go 1.26.0
