package main

// recipeFaults has faults of the client's recipes that show only if another client acts, or a reply is lost, between two of
// their requests. The client's own tests must notice them, without a server of Rollcall.
var recipeFaults = []namedMutant{
	{
		"barrier believed of a server that lags", "client/barrier/barrier.go",
		"err = reconnect.Settle(ctx, b.c)", "err = nil",
		"client/barrier", "TestWaitAtServerThatLags",
	},
	{
		"a client waits for the members of the next round", "client/barrier/double.go",
		"if err != nil || !exists || ready.Created != round {\n\t\twatch.Stop()", "if err != nil || exists && ready.Created != round {\n\t\twatch.Stop()",
		"client/barrier", "TestEnterAsRoundEnds",
	},
	{
		"a member waits for those of the next round", "client/barrier/double.go",
		"if err != nil || !exists || ready.Created != round {\n\t\twatch.Stop()", "if err != nil || !exists || false && ready.Created != round {\n\t\twatch.Stop()",
		"client/barrier", "TestLeaveAsNextRoundBegins",
	},
	{
		"a round is cleared that has begun since", "client/barrier/double.go",
		"client.SetOp(b.parent, data, parent.Version)", "client.SetOp(b.parent, data, parent.Version|client.AnyVersion)",
		"client/barrier", "TestClearAsNextRoundBegins",
	},
	{
		"a partition kept that was acquired at the end", "client/group/partitions.go",
		"if err == nil && ctx.Err() != nil {", "if err == nil && ctx.Err() != nil && false {",
		"client/group", "TestPartitionAcquiredAtTheEnd",
	},
	{
		"a node that is gone counts as persistent", "client/group/presence.go",
		"case !exists || ownsNode(p.c, stat):", "case exists && ownsNode(p.c, stat):",
		"client/group", "TestAnnounceAsOtherNodeGoes",
	},
	{
		"a contender keeps two nodes", "client/internal/contender/enter.go",
		"return true, x.deleteEach(ctx, names[1:])", "return true, x.deleteEach(ctx, nil)",
		"client/internal/contender", "TestEnterDeletesDuplicates",
	},
	{
		"a new value replaces another client's", "client/shared/write.go",
		"if err == nil && (!now.Exists || now.Stat.Version != 0 || !bytes.Equal(now.Data, v.cfg.Initial)) {", "if err == nil && !now.Exists {",
		"client/shared", "TestTrySetOfCreatedValue",
	},
	{
		"a taker that has its element leaves a watch", "client/queue/take.go",
		"\t\t\tchanged.Stop()\n\t\t\tunlocked.Stop()", "\t\t\tunlocked.Stop()",
		"client/queue", "TestTakersWaitInLine",
	},
	{
		"an observer misses a candidate that has just entered", "client/election/observe.go",
		"if err == nil && occupied {", "if err == nil && occupied && false {",
		"client/election", "TestObserveAsCandidateEnters",
	},
	{
		"an element is given back while its right is held", "client/queue/element.go",
		"\trecipe.End(e.Right)\n\terr := reconnect.Finish", "\terr := reconnect.Finish",
		"client/queue", "TestReleaseEndsRightFirst",
	},
	{
		"a Multi is held without one of its locks", "client/lock/multi.go",
		"\t\t\tr.endRight()\n", "",
		"client/lock", "TestMultiGuardEndsRight",
	},
	{
		"the event of an earlier child drops its successor", "client/internal/roster/follow.go",
		"if f.children[child.Name] != child {", "if f.children[child.Name] != child && false {",
		"client/internal/roster", "TestEventOfReplacedChild",
	},
}
