// Package monitoring declares the alerts and the dashboard. `make generate` writes the chart's PrometheusRule, the
// kustomize component, the dashboard's JSON and docs/operate/alerts.md from them.
package monitoring

import "fmt"

// Alert is a rule and its runbook. Texts of annotations have Prometheus' labels in braces. Mitigation is Markdown.
type Alert struct {
	Name, Severity, For, Expr string
	// If is the condition in the chart, "" for always.
	If string

	Summary   string
	Meaning   string
	Impact    string
	Diagnosis []string // commands
	// Mitigation is what ends the alert.
	Mitigation string
}

// Conditions in the chart.
const (
	ifAgents     = ".Values.agent.enabled"
	ifNoOverride = "not .Values.confirmAfter"
)

// Docs is the URL of the folder docs.
const Docs = "https://github.com/ip-reconcile/ip-reconcile/blob/main/docs/"

// late is true while fewer than 99 % of the releases with a proof come within so many seconds, at a burn rate of 14.4
// in one hour or 6 in six hours (Site Reliability Workbook, chapter 5). It needs 10 releases in 6 hours.
func late(proof string, seconds int) string {
	const delay = "ip_reconcile_release_delay_seconds"
	share := func(window, limit string) string {
		within := fmt.Sprintf(`sum(rate(%s_bucket{proof=%q,le=~"%d([.]0)?"}[%s]))`, delay, proof, seconds, window)
		return fmt.Sprintf(`1 - %s / sum(rate(%s_count{proof=%q}[%s])) > %s`, within, delay, proof, window, limit)
	}
	return fmt.Sprintf(`(%s and %s or %s and %s) and sum(increase(%s_count{proof=%q}[6h])) >= 10`,
		share("1h", "0.144"), share("5m", "0.144"), share("6h", "0.06"), share("30m", "0.06"), delay, proof)
}

// Alerts are all alerts. Only the leader has gauges, so no gauge means no leader.
func Alerts() []Alert {
	return []Alert{
		{
			Name: "IPReconcileNoPasses", Severity: "warning", For: "15m", Expr: `absent(ip_reconcile_candidates)`,
			Summary:    "No replica of ip-reconcile makes passes",
			Meaning:    "No replica leads, or Prometheus does not scrape the leader.",
			Impact:     "Leaked addresses are not released, and the other alerts have no data.",
			Diagnosis:  []string{"ip-reconcile status"},
			Mitigation: "Mend what `status` reports. The logs of the Deployment's pods have the error.",
		}, {
			Name: "IPReconcileNotObserving", Severity: "warning", For: "1m",
			Expr:       `time() - max(ip_reconcile_last_observation_timestamp_seconds) > 900`,
			Summary:    "ip-reconcile could not read the cluster for 15 minutes",
			Meaning:    "The API could not be read for 15 minutes.",
			Impact:     "Nothing is released, and the other alerts are out of date.",
			Diagnosis:  []string{"ip-reconcile status"},
			Mitigation: "The log has the API server's error. If RBAC forbids it, apply [the roles](../reference/rbac.md).",
		}, {
			Name: "IPReconcilePassOverdue", Severity: "warning", For: "5m",
			Expr:       `max(ip_reconcile_schedule_next_timestamp_seconds > 0) < time() - 3600`,
			Summary:    "A full pass of ip-reconcile is overdue by an hour",
			Meaning:    "A full pass was due an hour ago, and none has succeeded since.",
			Impact:     "Passes over the watch caches go on, but nothing verifies what they read.",
			Diagnosis:  []string{"ip-reconcile status"},
			Mitigation: "The log has the error of each full pass.",
		}, {
			Name: "IPReconcileAddressInConflict", Severity: "critical", For: "2m",
			Expr:       `max by (pool) (ip_reconcile_pool_findings{kind="Conflict"}) > 0`,
			Summary:    "Two pods have the same address of pool {{ $labels.pool }}",
			Meaning:    "Two running pods carry one address of pool {{ $labels.pool }}.",
			Impact:     "Traffic for this address reaches either pod.",
			Diagnosis:  []string{"ip-reconcile check --reason Conflict"},
			Mitigation: "Follow [conflicts](conflicts.md).",
		}, {
			Name: "IPReconcileAddressUnrecorded", Severity: "warning", For: "15m",
			Expr:       `max by (pool) (ip_reconcile_pool_findings{kind="Unrecorded"}) > 0`,
			Summary:    "Pool {{ $labels.pool }} lacks an address that a pod uses",
			Meaning:    "Pool {{ $labels.pool }} does not record an address in use.",
			Impact:     "The next ADD may assign the address again.",
			Diagnosis:  []string{"ip-reconcile check --reason Unrecorded"},
			Mitigation: "`--repair` records it. If that is off: `ip-reconcile run --repair --reason=Unrecorded`.",
		}, {
			Name: "IPReconcileAddressMisrecorded", Severity: "warning", For: "15m",
			Expr:       `max by (pool) (ip_reconcile_pool_findings{kind="Misrecorded"}) > 0`,
			Summary:    "Pool {{ $labels.pool }} records an address in use for another sandbox",
			Meaning:    "Pool {{ $labels.pool }} records an address in use for a sandbox that does not run.",
			Impact:     "The DEL of that sandbox may release the address.",
			Diagnosis:  []string{"ip-reconcile check --reason Misrecorded"},
			Mitigation: "`--repair` corrects it. If that is off: `ip-reconcile run --repair --reason=Misrecorded`.",
		}, {
			Name: "IPReconcileAddressClaimedByOther", Severity: "warning", For: "1m",
			Expr:       `time() - min(ip_reconcile_oldest_held_timestamp_seconds{reason="ClaimedByOther"}) > 900`,
			Summary:    "An address is held because another pod has it",
			Meaning:    "A stale allocation is held for 15 minutes, because another pod or sandbox carries its address.",
			Impact:     "The allocation is not released. The pod that carries the address may lose it to the recorded one.",
			Diagnosis:  []string{"ip-reconcile check --reason ClaimedByOther"},
			Mitigation: "Delete that pod, or correct its network-status.",
		}, {
			Name: "IPReconcileAddressHeld", Severity: "warning", For: "5m",
			Expr: `time() - min by (reason) (ip_reconcile_oldest_held_timestamp_seconds{` +
				`reason!~"ClaimedByOther|Terminating|NodeUnreachable|NoFreshReport"}) > 3600 or ` +
				`time() - min by (reason) (ip_reconcile_oldest_held_timestamp_seconds{` +
				`reason=~"NodeUnreachable|NoFreshReport"}) > 86400`,
			Summary: "An address is held for too long: {{ $labels.reason }}",
			Meaning: "An address has been held for an hour, or for a day while its node is away. " +
				"The reason is {{ $labels.reason }}.",
			Impact:     "The address is not released until an operator ends the reason.",
			Diagnosis:  []string{"ip-reconcile check --verdict Held", "ip-reconcile explain ADDRESS"},
			Mitigation: "[Held](troubleshooting.md#held) has what ends each reason.",
		}, {
			Name: "IPReconcileNotReleasing", Severity: "warning", For: "10m",
			Expr:       `time() - min(ip_reconcile_oldest_candidate_timestamp_seconds > 0) > 7200`,
			Summary:    "Stale addresses are not released",
			Meaning:    "An address has been stale for two hours.",
			Impact:     "A pool may become full of addresses that nobody uses.",
			Diagnosis:  []string{"ip-reconcile check --verdict Stale"},
			Mitigation: "RELEASE is what stands against it: see [refusals](troubleshooting.md#refusals).",
		}, {
			Name: "IPReconcileRetriedOften", Severity: "warning", For: "5m",
			Expr:       `max(ip_reconcile_most_retried_attempts) > 60`,
			Summary:    "The release of an address fails again and again",
			Meaning:    "{{ $value }} passes in a row could not release the same address.",
			Impact:     "The address stays taken. Others are released.",
			Diagnosis:  []string{"ip-reconcile check --verdict Stale"},
			Mitigation: "RELEASE is what stands against it: see [refusals](troubleshooting.md#refusals).",
		}, {
			Name: "IPReconcileReservationMissing", Severity: "warning", For: "15m",
			Expr:       `max by (pool) (ip_reconcile_pool_findings{kind="MissingReservation"}) > 0`,
			Summary:    "An allocation of pool {{ $labels.pool }} lacks its reservation",
			Meaning:    "{{ $value }} allocations of pool {{ $labels.pool }} in use have no reservation.",
			Impact:     "A pool with an overlapping range may assign the address again.",
			Diagnosis:  []string{"ip-reconcile check --reason MissingReservation"},
			Mitigation: "`--repair` creates it. If that is off: `ip-reconcile run --repair --reason=MissingReservation`.",
		}, {
			Name: "IPReconcileProvenReleasedLate", Severity: "warning", For: "2m", Expr: late("proven", 60),
			Summary:    "Too few proven addresses are released within a minute",
			Meaning:    "Fewer than 99 % of the proven addresses are released within a minute. Objective: 99 % a month.",
			Impact:     "Pods wait for addresses of full pools longer than they need to.",
			Diagnosis:  []string{"ip-reconcile check --verdict Stale", "ip-reconcile status"},
			Mitigation: "Usually ADDs and DELs hold whereabouts' Lease (`LeaseBusy`), or the API server is slow.",
		}, {
			Name: "IPReconcileUnconfirmedReleasedLate", Severity: "warning", For: "2m", If: ifNoOverride,
			Expr:       late("unconfirmed", 1200),
			Summary:    "Too few unconfirmed addresses are released within 20 minutes",
			Meaning:    "Fewer than 99 % are released within 20 minutes, of which 15 are confirmation (`--confirm-after`).",
			Impact:     "Pods wait for addresses of full pools longer than they need to.",
			Diagnosis:  []string{"ip-reconcile check --verdict Stale", "ip-reconcile status"},
			Mitigation: "Causes as [above](#ipreconcileprovenreleasedlate). The chart has no such alert with `confirmAfter`.",
		}, {
			Name: "IPReconcileWritesDenied", Severity: "warning", For: "15m",
			Expr:       `sum(increase(ip_reconcile_denied_writes_total[10m])) > 0`,
			Summary:    "Writes of ip-reconcile are denied",
			Meaning:    "RBAC, an admission policy or a schema denies writes of ip-reconcile.",
			Impact:     "What these writes would release, repair or remember stays as it is.",
			Diagnosis:  []string{"ip-reconcile status"},
			Mitigation: "The log and the Events have the API server's error. For RBAC apply [the roles](../reference/rbac.md).",
		}, {
			Name: "IPReconcileHistoryNotWritten", Severity: "warning", For: "0m",
			Expr:       `sum(increase(ip_reconcile_audit_failures_total[1h])) > 0`,
			Summary:    "The history of ip-reconcile is incomplete",
			Meaning:    "Releases or repairs of the last hour are missing in the history.",
			Impact:     "`ip-reconcile history` lacks them. Nothing is delayed by that, and the log has a line for each.",
			Diagnosis:  []string{"ip-reconcile history", "ip-reconcile status"},
			Mitigation: "The log has the error. If RBAC forbids the ConfigMaps, apply [the Role](../reference/rbac.md).",
		}, {
			Name: "IPReconcileMassReleaseRefused", Severity: "warning", For: "0m",
			Expr:       `max(ip_reconcile_breaker{operation="release"}) > 0`,
			Summary:    "The breaker of ip-reconcile refuses releases",
			Meaning:    "So many unconfirmed releases at once suggest a fault elsewhere.",
			Impact:     "Unconfirmed addresses are not released. Proven ones are.",
			Diagnosis:  []string{"ip-reconcile check --verdict Stale", "ip-reconcile explain ADDRESS"},
			Mitigation: "Explain a few. If they are right: `ip-reconcile run --allow-mass-release`.",
		}, {
			Name: "IPReconcileMassRepairRefused", Severity: "warning", For: "0m",
			Expr:       `max(ip_reconcile_breaker{operation="repair"}) > 0`,
			Summary:    "The breaker of ip-reconcile refuses repairs",
			Meaning:    "Nodes report more unrecorded addresses than the pods in the API request.",
			Impact:     "These addresses stay unrecorded, so the next ADDs may assign them again.",
			Diagnosis:  []string{"ip-reconcile check --reason Unrecorded"},
			Mitigation: "Check these nodes' agents. If they are right: `ip-reconcile recover --yes --allow-mass-repair`.",
		}, {
			Name: "IPReconcileScheduleUnusable", Severity: "warning", For: "15m", Expr: `max(ip_reconcile_schedule_error) > 0`,
			Summary:    "The cron expression of ip-reconcile is invalid",
			Meaning:    "The configured cron expression does not parse.",
			Impact:     "The last valid one, or the default, stays in force.",
			Diagnosis:  []string{"kubectl get events -A --field-selector reason=BadSchedule"},
			Mitigation: "Correct the expression. The event `BadSchedule` has the error.",
		}, {
			Name: "IPReconcilePaused", Severity: "info", For: "1d", Expr: `max(ip_reconcile_paused) > 0`,
			Summary:    "ip-reconcile has been paused for a day",
			Meaning:    "An annotation on the namespace has paused everything for a day.",
			Impact:     "Nothing is released or repaired.",
			Diagnosis:  []string{"ip-reconcile status"},
			Mitigation: "[Resume](pausing.md), if nobody needs the pause.",
		}, {
			Name: "IPReconcileEtcdRestored", Severity: "warning", For: "0m",
			Expr:       `sum(increase(ip_reconcile_etcd_restores_total[1h])) > 0`,
			Summary:    "etcd was restored",
			Meaning:    "A pass or an agent detected a restore of etcd within the last hour.",
			Impact:     "Releases are paused until every node has reported.",
			Diagnosis:  []string{"ip-reconcile check"},
			Mitigation: "Follow [restore](restore.md).",
		}, {
			Name: "IPReconcileFenceTimedOut", Severity: "critical", For: "0m",
			Expr:       `sum(increase(ip_reconcile_fences_total{outcome="TimedOut"}[1h])) > 0`,
			Summary:    "The fence after an etcd restore was lowered at its timeout",
			Meaning:    "ADDs go on after a restore of etcd, although not everything that runs is known.",
			Impact:     "whereabouts may assign addresses in use.",
			Diagnosis:  []string{"ip-reconcile check"},
			Mitigation: "Follow [restore](restore.md) now, and keep new pods off the affected networks. The log has the rest.",
		}, {
			Name: "IPReconcileFenceRaisedOften", Severity: "warning", For: "0m",
			Expr:       `sum(increase(ip_reconcile_fences_total[1h])) >= 3`,
			Summary:    "ADDs and DELs waited for a fence three times within an hour",
			Meaning:    "Either etcd was restored that often, or one agent keeps recording a restore.",
			Impact:     "ADDs and DELs wait at each fence, and releases are paused.",
			Diagnosis:  []string{"kubectl get events -A --field-selector reason=FenceRaised"},
			Mitigation: "See [one agent records restores](restore.md#one-agent-keeps-recording-restores).",
		}, {
			Name: "IPReconcileRestorePending", Severity: "critical", For: "15m",
			Expr:       `max(ip_reconcile_restore_pending_nodes) > 0`,
			Summary:    "Nodes have not reported since the restore of etcd",
			Meaning:    "etcd was restored, and {{ $value }} nodes have not reported since.",
			Impact:     "Nothing is released, and the pools may lack addresses that these nodes use.",
			Diagnosis:  []string{"ip-reconcile check"},
			Mitigation: "See [nodes that are waited for](restore.md#4-deal-with-nodes-that-are-waited-for).",
		}, {
			Name: "IPReconcileNoFreshReport", Severity: "warning", For: "30m", If: ifAgents,
			Expr: `max(ip_reconcile_nodes{state="NoFreshReport"}) / ` +
				`sum(max by (state) (ip_reconcile_nodes{state=~"Fresh|NoFreshReport"})) > 0.01`,
			Summary:    "More than 1 % of the Ready nodes have no fresh report",
			Meaning:    "{{ $value | humanizePercentage }} of the Ready nodes have no fresh SandboxReport.",
			Impact:     "Addresses that these nodes may use are held, except those of finished pods.",
			Diagnosis:  []string{"ip-reconcile status", "kubectl get sandboxreports.ip-reconcile.dev"},
			Mitigation: "[Mend the agents](troubleshooting.md#a-node-has-no-fresh-report).",
		}, {
			Name: "IPReconcileAgentUnguarded", Severity: "warning", For: "5m", If: ifAgents,
			Expr:       `max(ip_reconcile_agent_unguarded) > 0`,
			Summary:    "The agents' admission policy is not enforced",
			Meaning:    "The admission policy ip-reconcile-agent is missing, not bound, or does not deny.",
			Impact:     "Agents publish no reports, so addresses on their nodes are held.",
			Diagnosis:  []string{"kubectl get validatingadmissionpolicies,validatingadmissionpolicybindings"},
			Mitigation: "Apply `deploy/agent/admission.yaml`, or upgrade the chart. The alert needs the agents' metrics.",
		}, {
			Name: "IPReconcileAgentCannotInspect", Severity: "warning", For: "5m", If: ifAgents,
			Expr:       `max by (node) (time() - ip_reconcile_agent_last_successful_inspection_timestamp_seconds) > 900`,
			Summary:    "The agent on node {{ $labels.node }} cannot inspect the node",
			Meaning:    "The agent on node {{ $labels.node }} could not inspect the node for 15 minutes.",
			Impact:     "The node has no fresh report, so addresses that it may use are held.",
			Diagnosis:  []string{"ip-reconcile explain node/NODE"},
			Mitigation: "The agent's log and its readiness have the error. The alert needs the agents' metrics.",
		}, {
			Name: "IPReconcilePoolFull", Severity: "critical", For: "5m",
			Expr:       `max by (pool) (ip_reconcile_pool_waiting_pods) > 0`,
			Summary:    "Pods do not start because pool {{ $labels.pool }} is full",
			Meaning:    "{{ $value }} pods wait for an address of pool {{ $labels.pool }}, which is full.",
			Impact:     "These pods do not start.",
			Diagnosis:  []string{"ip-reconcile pools POOL"},
			Mitigation: "See [the range is full](tickets.md#the-range-is-full).",
		}, {
			Name: "IPReconcilePoolNearlyFull", Severity: "warning", For: "15m",
			Expr: `1 - max by (pool) (ip_reconcile_pool_addresses{state="free",alerts="on"}) / ` +
				`max by (pool) (ip_reconcile_pool_addresses{state="usable"}) > 0.9`,
			Summary:   "Pool {{ $labels.pool }} is nearly full",
			Meaning:   "{{ $value | humanizePercentage }} of pool {{ $labels.pool }} is taken.",
			Impact:    "Pods do not start when it is full.",
			Diagnosis: []string{"ip-reconcile pools POOL"},
			Mitigation: "As for [a full pool](#ipreconcilepoolfull). To silence a pool that may be full: " +
				"`kubectl annotate ippools.whereabouts.cni.cncf.io -n kube-system POOL ip-reconcile.dev/no-usage-alerts=true`.",
		}, {
			Name: "IPReconcilePoolFullWithinADay", Severity: "warning", For: "1h",
			Expr: `max by (pool) (predict_linear(ip_reconcile_pool_addresses{state="free",alerts="on"}[6h], 86400)) <= 0 ` +
				`and max by (pool) (ip_reconcile_pool_addresses{state="free"}) > 0`,
			Summary:    "Pool {{ $labels.pool }} will be full within a day",
			Meaning:    "At the pace of the last 6 hours pool {{ $labels.pool }} is full within a day.",
			Impact:     "Pods do not start when it is full.",
			Diagnosis:  []string{"ip-reconcile pools POOL"},
			Mitigation: "As for [a pool that is nearly full](#ipreconcilepoolnearlyfull).",
		},
	}
}
