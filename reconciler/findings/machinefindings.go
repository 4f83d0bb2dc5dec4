package findings

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// machineFindings are the findings on allocations that differ from their IPAMClaim, or that a guest has after its
// machine's migration.
func (x *finder) machineFindings(items []*judge.Item) (found []Finding) {
	for _, it := range items {
		if it.Allocation == nil || it.Allocation.Problem != "" {
			continue
		}
		f := Finding{IP: it.Text(), Pool: it.Object(), Pods: []string{it.PodRef()}}
		if name := it.IPAMClaim(); name != nil {
			claim, _ := x.Claim(*name)
			if claim != nil && len(claim.IPs) > 0 && !slices.ContainsFunc(claim.IPs, it.IsAbout) {
				f.Kind = ClaimDiffers
				f.Message = fmt.Sprintf("the allocation of %s names IPAMClaim %s, whose status has %s", it.Text(), name,
					strings.Join(textsOf(claim.IPs), " and "))
				found = append(found, f)
			}
		}
		if it.Reason == judge.GuestAddress || it.Reason == judge.GuestUnknown {
			f.Kind, f.Message = GuestAddressFinding, fmt.Sprintf("%s: %s", it.Text(), it.Message())
			found = append(found, f)
		}
	}
	return found
}

func textsOf(addresses []netip.Addr) (texts []string) {
	for _, a := range addresses {
		texts = append(texts, a.String())
	}
	return texts
}
