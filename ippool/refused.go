package ippool

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"

	netutils "k8s.io/utils/net"
)

// otherFields are the fields of an ipam section that nothing depends on here, with their types in whereabouts. It
// refuses a section with a value of another type (v0.9.4, pkg/types/types.go, IPAMConfig.UnmarshalJSON).
type otherFields struct {
	Routes []*struct {
		Dst      *string `json:"dst"`
		GW       net.IP  `json:"gw"`
		MTU      int     `json:"mtu"`
		AdvMSS   int     `json:"advmss"`
		Priority int     `json:"priority"`
		Table    *int    `json:"table"`
		Scope    *int    `json:"scope"`
	} `json:"routes"`
	Addresses []struct {
		Address string `json:"address"`
		Gateway net.IP `json:"gateway"`
	} `json:"addresses"`
	DNS struct {
		Nameservers []string `json:"nameservers"`
		Domain      string   `json:"domain"`
		Search      []string `json:"search"`
		Options     []string `json:"options"`
	} `json:"dns"`
	LeaseDuration int    `json:"leader_lease_duration"`
	RenewDeadline int    `json:"leader_renew_deadline"`
	RetryPeriod   int    `json:"leader_retry_period"`
	SleepForRace  int    `json:"sleep_for_race"`
	LogFile       string `json:"log_file"`
	LogLevel      string `json:"log_level"`
	Cron          string `json:"reconciler_cron_expression"`
	Path          string `json:"configuration_path"`
	Kubernetes    struct {
		Kubeconfig string `json:"kubeconfig"`
		APIRoot    string `json:"k8s_api_root"`
	} `json:"kubernetes"`
}

// refusedFields returns why whereabouts cannot read the otherFields of a section, so that every ADD fails; "" if it can
// (v0.9.4, pkg/config/config.go, LoadIPAMConfig, configureStatic).
func refusedFields(raw json.RawMessage) string {
	var other otherFields
	var wrong *json.UnmarshalTypeError
	switch err := json.Unmarshal(raw, &other); {
	case errors.As(err, &wrong):
		return fmt.Sprintf("%.80s is a %.80s, and whereabouts reads no such value there", wrong.Field, wrong.Value)
	case err != nil:
		return fmt.Sprintf("whereabouts cannot read it: %.200v", err)
	}
	for _, r := range other.Routes {
		if r == nil || r.Dst == nil {
			continue
		}
		if _, _, err := net.ParseCIDR(*r.Dst); err != nil {
			return fmt.Sprintf("dst %.80q of a route is not an address with a prefix length", *r.Dst)
		}
	}
	for _, a := range other.Addresses {
		if _, _, err := netutils.ParseCIDRSloppy(a.Address); err != nil {
			return fmt.Sprintf("address %.80q of addresses is not one with a prefix length", a.Address)
		}
	}
	return ""
}
