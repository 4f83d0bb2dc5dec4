package ippool

import (
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// ClaimResource is the resource of IPAMClaims (k8snetworkplumbingwg/ipamclaims, pkg/crd/ipamclaims/v1alpha1/types.go).
var ClaimResource = schema.GroupVersionResource{Group: "k8s.cni.cncf.io", Version: "v1alpha1", Resource: "ipamclaims"}

// ClaimField names, in an entry and a reservation, the IPAMClaim as "<namespace>/<name>". CNI DEL keeps what has it
// (whereabouts pull request 742, pkg/api/whereabouts.cni.cncf.io/v1alpha1/ippool_types.go).
const ClaimField = "ipamclaimref"

// Claim is an IPAMClaim: a virtual machine's interface, whose addresses outlive its pods.
type Claim struct {
	types.NamespacedName
	IPs    []netip.Addr // of its status, without those that cannot be parsed
	Unread string       // why it is unknown whether the claim exists; "" if it exists
}

// read reads addresses with or without a prefix length: whereabouts writes none, and the CRD asks for one.
func (c *Claim) read(o *object) {
	c.NamespacedName = o.name()
	ips, _ := o.Status["ips"].([]any)
	for _, ip := range ips {
		text, _ := ip.(string)
		text, _, _ = strings.Cut(text, "/")
		if addr, err := netip.ParseAddr(text); err == nil {
			c.IPs = append(c.IPs, addr.Unmap())
		}
	}
}

// parseClaimRef parses ClaimField. Another version of whereabouts may write another form.
func parseClaimRef(text string) (name *types.NamespacedName, problem Problem, detail string) {
	namespace, rest, _ := strings.Cut(text, "/")
	if namespace == "" || rest == "" || strings.Contains(rest, "/") {
		return nil, UnknownField, "the value of " + ClaimField + " is not <namespace>/<name>"
	}
	return &types.NamespacedName{Namespace: intern(namespace), Name: rest}, "", ""
}
