package admin

import (
	"rollcall/api"
	"rollcall/view"
)

func (e *ensembleAPI) buckets(q *query) (any, error) {
	b, err := e.ops.Buckets(q.Context())
	return bucketsRow(b), err
}

func bucketsRow(b view.Buckets) api.Buckets {
	row := api.Buckets{TickMs: b.Tick.Milliseconds(), At: at(b.At), Leader: b.Leader, Later: b.Later, Buckets: make([]api.Bucket, len(b.Buckets)), Silent: silences(b.Silent)}
	for i, one := range b.Buckets {
		row.Buckets[i] = api.Bucket{DueMs: one.Due.Milliseconds(), Sessions: one.Sessions}
	}
	return row
}
