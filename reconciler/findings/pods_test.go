package findings_test

import (
	"time"

	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

var (
	carrier            = UsualPod(Carrying("10.0.0.5"))
	terminating        = UsualPod(DeletedAgo(-30 * time.Second))
	terminatingCarrier = UsualPod(DeletedAgo(-30*time.Second), Carrying("10.0.0.5"))
	succeeded          = UsualPod(Phase("Succeeded"), StoppedByKubelet(time.Hour)) // stopped by kubelet
)
