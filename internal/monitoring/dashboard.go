package monitoring

// Row is a row of the dashboard.
type Row struct {
	Title  string
	Panels []Panel
}

// Panel shows a query. Legend has the query's labels in braces.
type Panel struct {
	Title, Unit, Query, Legend string
	// IsNow is set for a panel of the present value instead of its course.
	IsNow bool
}

// Rows are the rows of the dashboard. Queries take the leader's gauges by max, and add the replicas' counters.
func Rows() []Row {
	return []Row{
		{"Is it healthy", []Panel{
			{"Firing alerts", "short", `count(ALERTS{alertname=~"IPReconcile.*",alertstate="firing"}) or vector(0)`, "", true},
			{"Last read of the cluster", "s", `time() - max(ip_reconcile_last_observation_timestamp_seconds)`, "", true},
			{"Next full pass in", "s", `max(ip_reconcile_schedule_next_timestamp_seconds) - time()`, "", true},
			{"Paused", "bool_yes_no", `max(ip_reconcile_paused)`, "", true},
			{"Defects", "short", `max by (kind, pool) (ip_reconcile_pool_findings)`, "{{kind}} {{pool}}", false},
			{"Reservations that differ from pools", "short", `max by (state) (ip_reconcile_diverged_reservations)`, "{{state}}",
				false},
			{"Passes in an hour", "short", `sum by (result) (increase(ip_reconcile_cache_passes_total[1h]))`, "{{result}}",
				false},
			{"Denied writes", "short", `sum(increase(ip_reconcile_denied_writes_total[1h]))`, "", false},
			{"Records that the history lacks", "short", `sum(increase(ip_reconcile_audit_failures_total[1h]))`, "", false},
		}},
		{"Pools", []Panel{
			{"Fill", "percentunit", `1 - max by (pool) (ip_reconcile_pool_addresses{state="free",pool=~"$pool"}) / ` +
				`max by (pool) (ip_reconcile_pool_addresses{state="usable",pool=~"$pool"})`, "{{pool}}", false},
			{"Free addresses", "short", `max by (pool) (ip_reconcile_pool_addresses{state="free",pool=~"$pool"})`, "{{pool}}",
				false},
			{"Days until full, at the pace of 6 hours", "d",
				`max by (pool) (ip_reconcile_pool_addresses{state="free",pool=~"$pool"}) / ` +
					`(max by (pool) (-deriv(ip_reconcile_pool_addresses{state="free",pool=~"$pool"}[6h])) > 0) / 86400`,
				"{{pool}}", false},
			{"Pods that wait for an address", "short", `max by (pool) (ip_reconcile_pool_waiting_pods)`, "{{pool}}", false},
		}},
		{"Candidates and releases", []Panel{
			{"Stale, and not released yet", "short", `max(ip_reconcile_candidates)`, "", false},
			{"Age of the oldest", "s", `time() - min(ip_reconcile_oldest_candidate_timestamp_seconds > 0)`, "", false},
			{"Releases in an hour", "short", `sum by (reason) (increase(ip_reconcile_released_total[1h]))`, "{{reason}}", false},
			{"Refusals in an hour", "short", `sum by (reason) (increase(ip_reconcile_refused_total[1h]))`, "{{reason}}", false},
			{"Delay of 99 % of the releases", "s", `histogram_quantile(0.99, sum by (proof, le) (` +
				`rate(ip_reconcile_release_delay_seconds_bucket[1h])))`, "{{proof}}", false},
			{"Repairs in an hour", "short", `sum by (kind) (increase(ip_reconcile_repaired_total[1h]))`, "{{kind}}", false},
		}},
		{"Held", []Panel{
			{"Held allocations", "short", `max by (reason) (ip_reconcile_allocations{verdict="Held"})`, "{{reason}}", false},
			{"Held for", "s", `time() - min by (reason) (ip_reconcile_oldest_held_timestamp_seconds)`, "{{reason}}", false},
			{"All allocations", "short", `sum by (verdict) (max by (verdict, reason) (ip_reconcile_allocations))`,
				"{{verdict}}", false},
		}},
		{"Reports of nodes", []Panel{
			{"Nodes", "short", `max by (state) (ip_reconcile_nodes)`, "{{state}}", false},
			{"Last inspection, of the slowest ten", "s",
				`topk(10, max by (node) (time() - ip_reconcile_agent_last_successful_inspection_timestamp_seconds))`,
				"{{node}}", false},
			{"Sandboxes of which addresses are unknown", "short", `sum(ip_reconcile_agent_addresses_unread)`, "", false},
		}},
		{"Restores and fences", []Panel{
			{"Restores of etcd in a day", "short", `sum(increase(ip_reconcile_etcd_restores_total[1d]))`, "", true},
			{"Nodes that are waited for", "short", `max(ip_reconcile_restore_pending_nodes)`, "", false},
			{"Fence", "bool_on_off", `max(ip_reconcile_fence)`, "", false},
			{"Fences in a day", "short", `sum by (outcome) (increase(ip_reconcile_fences_total[1d]))`, "{{outcome}}", false},
		}},
		{"Lease of whereabouts", []Panel{
			{"90 % of the holds by ADDs and DELs, as observed", "s",
				`histogram_quantile(0.9, sum by (le) (rate(ip_reconcile_lease_hold_seconds_bucket[1h])))`, "", false},
			{"ADDs a second that it allows", "ops", `sum(rate(ip_reconcile_lease_hold_seconds_count[1h])) / ` +
				`sum(rate(ip_reconcile_lease_hold_seconds_sum[1h]))`, "", false},
			{"Refusals for it in an hour", "short",
				`sum by (reason) (increase(ip_reconcile_refused_total{reason=~"LeaseBusy|NoLease"}[1h]))`, "{{reason}}", false},
			{"Tries of the most retried item", "short", `max(ip_reconcile_most_retried_attempts)`, "", false},
		}},
		{"The process", []Panel{
			{"Memory", "bytes", `process_resident_memory_bytes and on (instance) ip_reconcile_build_info`, "{{instance}}",
				false},
			{"CPU", "short", `rate(process_cpu_seconds_total[$__rate_interval]) and on (instance) ip_reconcile_build_info`,
				"{{instance}}", false},
			{"Duration of 99 % of the full passes", "s",
				`histogram_quantile(0.99, sum by (le) (rate(ip_reconcile_pass_duration_seconds_bucket[1d])))`, "", false},
			{"Rebuilt watch caches", "short", `sum(increase(ip_reconcile_cache_rebuilds_total[1h]))`, "", false},
		}},
	}
}
