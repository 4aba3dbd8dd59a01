package admin

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dashboard10465 are the metrics that ZooKeeper's dashboard for Grafana reads, number 10465. Of a summary
// it reads the sum and the count.
const dashboard10465 = `
	znode_count ephemerals_count global_sessions local_sessions write_per_namespace read_per_namespace approximate_data_size
	packets_received packets_sent response_packet_cache_misses response_packet_cache_hits response_packet_get_children_cache_misses
	response_packet_get_children_cache_hits unrecoverable_error_count digest_mismatches_count startup_snap_load_time startup_txns_loaded
	dbinittime quorum_size leader_uptime learners synced_non_voting_followers synced_observers election_time uptime
	learner_commit_received_count commit_count snap_count diff_count looking_count proposal_count last_proposal_size max_proposal_size
	min_proposal_size follower_sync_time learner_handler_qp_size quit_leading_due_to_disloyal_voter om_commit_process_time_ms
	om_proposal_process_time_ms watch_count node_changed_watch_count node_children_watch_count node_deleted_watch_count
	node_created_watch_count revalidate_count stale_sessions_expired dead_watchers_cleared dead_watchers_queued
	dead_watchers_cleaner_latency add_dead_watcher_stall_time outstanding_requests last_client_response_size min_client_response_size
	max_client_response_size bytes_received_count connection_request_count num_alive_connections connection_rejected
	connection_drop_count connection_drop_probability sessionless_connections_expired connection_token_deficit
	open_file_descriptor_count fsynctime snapshottime prep_process_time prep_processor_queue_time_ms prep_processor_queue_size
	prep_processor_request_queued outstanding_changes_queued outstanding_changes_removed close_session_prep_time sync_process_time
	sync_processor_queue_flush_time_ms sync_processor_queue_size sync_processor_request_queued sync_processor_batch_size
	commit_process_time read_commitproc_time_ms write_commitproc_time_ms write_commit_proc_req_queued read_commit_proc_req_queued
	commit_commit_proc_req_queued requests_in_session_queue read_commit_proc_issued write_commit_proc_issued
	concurrent_request_processing_in_commit_processor time_waiting_empty_pool_in_commit_processor_read_ms pending_session_queue_size
	local_write_committed_time_ms server_write_committed_time_ms write_batch_time_in_commit_processor
	reads_after_write_in_session_queue session_queues_drained reads_issued_from_session_queue request_commit_queued
	write_final_proc_time_ms read_final_proc_time_ms readlatency updatelatency max_latency min_latency avg_latency proposal_latency
	quorum_ack_latency ack_latency propagation_latency commit_propagation_latency proposal_ack_creation_latency tls_handshake_exceeded
	outstanding_tls_handshake ensemble_auth_fail ensemble_auth_success ensemble_auth_skip jvm_classes_loaded jvm_threads_current
	jvm_threads_deadlocked jvm_pause_time_ms jvm_gc_collection_seconds jvm_threads_state jvm_memory_pool_bytes_used`

// exported are the keys of mntr that the usual exporters and agents read, which know them since
// ZooKeeper 3.4, and the metrics in the alerts that ZooKeeper's guide recommends.
const exported = `
	avg_latency max_latency min_latency packets_received packets_sent num_alive_connections outstanding_requests znode_count watch_count
	ephemerals_count approximate_data_size followers learners synced_followers pending_syncs open_file_descriptor_count
	max_file_descriptor_count uptime leader_uptime election_time fsynctime snapshottime quorum_size global_sessions local_sessions
	connection_drop_probability last_proposal_size max_proposal_size min_proposal_size auth_failed_count
	fsync_threshold_exceed_count response_bytes watch_bytes jvm_pause_time_ms`

// missing returns the table of docs/metrics.md of ZooKeeper's metrics that are not served: their names,
// and what the table names instead.
func missing(t *testing.T) (names, instead []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "| ZooKeeper's | Why it is missing | Instead |\n|---|---|---|\n")
	if !ok {
		t.Fatal("docs/metrics.md: no table of what is missing")
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	table, _, _ = strings.Cut(table, "\n\n")
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) != 5 || strings.TrimSpace(cells[2]) == "" {
			t.Fatalf("row %q is not complete", row)
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
			names = append(names, m[1])
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[3], -1) {
			instead = append(instead, m[1])
		}
	}
	return names, instead
}

// Every metric that ZooKeeper's dashboard or a usual exporter reads is served, or docs/metrics.md says
// why it is missing. No metric is both, and what the page names instead is served.
func TestZooKeepersDashboards(t *testing.T) {
	h, _ := newTestHTTP(t, "leader")
	served := scraped(t, h).kind
	for _, m := range documented(t) { // member.TestDocsHaveNativeMetrics holds that table against the members
		served[m.name] = m.kind
	}
	gone, instead := missing(t)
	names := strings.Fields(dashboard10465 + exported)
	for _, name := range names {
		if served[name] == "" && !slices.Contains(gone, name) {
			t.Errorf("%s is not served, and docs/metrics.md does not say why", name)
		}
	}
	for _, name := range gone {
		if served[name] != "" {
			t.Errorf("%s is served, and docs/metrics.md says that it is missing", name)
		}
	}
	for _, name := range instead {
		if served[name] == "" {
			t.Errorf("docs/metrics.md points to %s, which is not served", name)
		}
	}
	if got := len(names); got < 130 {
		t.Errorf("only %d names", got)
	}
}

// documented returns the native metrics in docs/metrics.md.
func documented(t *testing.T) (all []struct{ name, kind string }) {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile("(?m)^\\* `(rollcall_\\w+)` \\((\\w+)").FindAllStringSubmatch(string(text), -1) {
		all = append(all, struct{ name, kind string }{row[1], row[2]})
	}
	if len(all) < 40 {
		t.Fatalf("docs/metrics.md has only %d native metrics", len(all))
	}
	return all
}
