package bench

// intervals is the time and the use of several intervals with pauses between them, as if they had followed each other at
// once.
type intervals struct {
	begin, end reading
}

// spend adds what was used from begin to end. The first reading is moved on so that what was used since the interval
// before does not count.
func (i *intervals) spend(begin, end reading) {
	if i.end.at.IsZero() {
		i.begin, i.end = begin, begin
	}
	i.begin.at = i.begin.at.Add(begin.at.Sub(i.end.at))
	i.begin.tool += begin.tool - i.end.tool
	for pid, cpu := range begin.servers.cpu {
		i.begin.servers.cpu[pid] += cpu - i.end.servers.cpu[pid]
	}
	i.end = end
}

// result is the result of a case that measures only these intervals.
func (i *intervals) result(r *run, all *tally) Result {
	result := r.result(all, i.begin, i.end)
	took := i.end.at.Sub(i.begin.at).Seconds()
	result.Seconds, result.PerSecond = round(took), round(float64(result.Ops)/took)
	return result
}
