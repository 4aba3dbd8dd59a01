package bench

import "time"

// servingMembers reports which processes serve sessions: those whose number of open files grew at least half as much as that of the
// process where it grew most. It has the processes of both readings.
func servingMembers(before, end usage) map[int]bool {
	most := 0
	for pid, was := range before.memory {
		most = max(most, end.memory[pid].files-was.files)
	}
	serves := map[int]bool{}
	for pid, was := range before.memory {
		if now, ok := end.memory[pid]; ok {
			serves[pid] = 2*(now.files-was.files) >= most
		}
	}
	return serves
}

// growthFigures returns the growth of the servers' memory from before the sessions were opened, divided by the number of sessions. A
// session costs memory at the member that serves it, and at the others. If all serve some, there is only the sum.
func growthFigures(before, end usage, sessions int) []Figure {
	perSession := func(name string, bytes int64) Figure {
		return Figure{Name: name, Value: float64(bytes / int64(sessions)), Unit: unitBytes, betterDirection: lessIsBetter}
	}
	var serving, others, count int64 // count of the others
	for pid, serves := range servingMembers(before, end) {
		growth := end.memory[pid].pss - before.memory[pid].pss
		if serves {
			serving += growth
		} else {
			others += growth
			count++
		}
	}
	figures := []Figure{
		perSession("RSS growth per session", end.rss-before.rss), perSession("PSS growth per session, members that serve them", serving),
	}
	if count > 0 {
		figures = append(figures, perSession("PSS growth per session, each other member", others/count))
	}
	return figures
}

// servingFigure returns the CPU time of the members that serve sessions, without that of the others, divided by the number of ops.
func servingFigure(before usage, begin, end usageReading, ops int64) Figure {
	var sum time.Duration
	for pid, serves := range servingMembers(before, end.serverUsage) {
		if serves {
			sum += end.serverUsage.cpuByPID[pid] - begin.serverUsage.cpuByPID[pid]
		}
	}
	return Figure{
		Name: "server CPU per op, members that serve them", Value: toMicros(sum / time.Duration(max(ops, 1))), Unit: unitMicros,
		betterDirection: lessIsBetter,
	}
}

// largestFigure returns the memory of the member that has most.
func largestFigure(end usage) Figure {
	var most int64
	for _, m := range end.memory {
		most = max(most, m.pss)
	}
	return Figure{Name: "PSS of the largest member", Value: float64(most), Unit: unitBytes, betterDirection: lessIsBetter}
}
