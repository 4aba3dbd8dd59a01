package bench

// intervals sums up the time and the usage of several intervals, without the pauses between them.
type intervals struct {
	begin, end usageReading
}

// addInterval adds the usage from begin to end. It shifts the first reading to leave out the usage between
// intervals.
func (i *intervals) addInterval(begin, end usageReading) {
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

// intervalResult returns the result of a case that measures only these intervals.
func (i *intervals) intervalResult(r *caseRun, all *tally) Result {
	result := r.commonResult(all, i.begin, i.end)
	took := i.end.at.Sub(i.begin.at).Seconds()
	result.Seconds, result.PerSecond = roundToTenth(took), roundToTenth(float64(result.Ops)/took)
	return result
}
