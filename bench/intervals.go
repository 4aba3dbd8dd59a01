package bench

// intervals is the time and the use of several intervals with pauses between them, as if they had followed each other at
// once.
type intervals struct {
	begin, end reading
}

// addInterval adds what was used from begin to end. The first reading is moved on so that what was used since the interval
// before does not count.
func (i *intervals) addInterval(begin, end reading) {
	if i.end.at.IsZero() {
		i.begin, i.end = begin, begin
	}
	i.begin.at = i.begin.at.Add(begin.at.Sub(i.end.at))
	i.begin.toolCPU += begin.toolCPU - i.end.toolCPU
	for pid, cpu := range begin.serverUsage.cpuByPID {
		i.begin.serverUsage.cpuByPID[pid] += cpu - i.end.serverUsage.cpuByPID[pid]
	}
	i.end = end
}

// intervalResult is the result of a case that measures only these intervals.
func (i *intervals) intervalResult(r *caseRun, all *tally) Result {
	result := r.newResult(all, i.begin, i.end)
	took := i.end.at.Sub(i.begin.at).Seconds()
	result.Seconds, result.PerSecond = roundToTenth(took), roundToTenth(float64(result.Ops)/took)
	return result
}
