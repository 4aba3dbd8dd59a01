module rollcall/client

go 1.26.0

require rollcall/zk v0.0.0

replace rollcall/zk => ../zk
