package bench

import "slices"

// growthFigures returns the growth of the servers' memory from before the sessions were opened, divided by the number of sessions.
//
// A session costs memory at the member that serves it, and at the others. These are distinguished by their open files: a member
// serves sessions if its number of files grew at least half as much as that of the member where it grew most. If all serve some, there
// is only the sum. A process that was started between the two readings counts for neither.
func growthFigures(before, end usage, sessions int) []Figure {
	perSession := func(name string, bytes int64) Figure {
		return Figure{Name: name, Value: float64(bytes / int64(sessions)), Unit: unitBytes, betterDirection: lessIsBetter}
	}
	figures := []Figure{perSession("RSS growth per session", end.rss-before.rss)}
	var files []int
	for pid, now := range end.memory {
		files = append(files, now.files-before.memory[pid].files)
	}
	if len(files) == 0 {
		return figures
	}
	most := slices.Max(files)
	var serving, others int64
	count := int64(0) // of the others
	for pid, now := range end.memory {
		was, ok := before.memory[pid]
		switch {
		case !ok:
		case 2*(now.files-was.files) >= most:
			serving += now.pss - was.pss
		default:
			others += now.pss - was.pss
			count++
		}
	}
	figures = append(figures, perSession("PSS growth per session, members that serve them", serving))
	if count > 0 {
		figures = append(figures, perSession("PSS growth per session, each other member", others/count))
	}
	return figures
}

// largestFigure returns the memory of the member that has most.
func largestFigure(end usage) Figure {
	var most int64
	for _, m := range end.memory {
		most = max(most, m.pss)
	}
	return Figure{Name: "PSS of the largest member", Value: float64(most), Unit: unitBytes, betterDirection: lessIsBetter}
}
