package agentcmd_test

import (
	"io"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/agentcmd"
)

// Whoever sets the variable must not get the opposite of it without a word.
func TestNew_WithoutAdmissionPolicyFromTheEnvironment(t *testing.T) {
	for value, want := range map[string]string{
		"": "false", "true": "true", "True": "true", "1": "true", "false": "false", "0": "false", "yes": "error",
	} {
		t.Run(value, func(t *testing.T) {
			t.Setenv("WITHOUT_ADMISSION_POLICY", value)
			t.Setenv("POD_UID", "")
			run := func(args ...string) string {
				c := agentcmd.New(io.Discard, nil)
				c.SetArgs(args)
				c.SilenceErrors, c.SilenceUsage = true, true
				err := c.ExecuteContext(t.Context())
				if err == nil {
					t.Fatal("it runs without --pod-uid")
				}
				return err.Error()
			}
			isNamed := strings.Contains(run(), "WITHOUT_ADMISSION_POLICY")
			if isNamed != (want == "error") {
				t.Errorf("an error names the variable: %v", isNamed)
			}
			if err := run("--without-admission-policy=false"); strings.Contains(err, "WITHOUT_ADMISSION_POLICY") {
				t.Errorf("with the flag: %s", err)
			}
			got := agentcmd.New(io.Discard, nil).Flags().Lookup("without-admission-policy").DefValue
			if want != "error" && got != want {
				t.Errorf("the default is %s", got)
			}
		})
	}
}
