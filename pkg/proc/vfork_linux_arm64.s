#include "go_asm.h"
#include "textflag.h"

#define SYS_write 64
#define SYS_exit_group 94
#define SYS_getpid 172
#define SYS_clone 220
#define ESRCH 3

// func vfork(b *burden) (pid uintptr, errno syscall.Errno)
//
// The child is on the same stack and does not touch it.
TEXT ·vfork(SB),NOSPLIT|NOFRAME,$0-24
	MOVD	b+0(FP), R19
	MOVD	burden_flags(R19), R0
	MOVD	ZR, R1
	ADD	$burden_pidfd, R19, R2
	MOVD	ZR, R3
	MOVD	ZR, R4
	MOVD	$SYS_clone, R8
	SVC
	CBZ	R0, child
	MOVD	ZR, errno+16(FP)
	MOVD	R0, pid+8(FP)
	CMN	$4095, R0
	BCC	parent
	NEG	R0, R0
	MOVD	R0, errno+16(FP)
parent:
	RET

child:
	MOVD	$SYS_getpid, R8
	SVC
	MOVW	R0, burden_pid(R19)
	MOVD	burden_calls(R19), R20
	MOVD	(burden_calls+8)(R19), R21	// how many are left
next:
	MOVD	call_rules(R20), R23
	MOVD	call_args(R20), R0
	TST	$const_ofPrior, R23
	BEQ	call
	MOVD	R22, R0
call:
	MOVD	(call_args+8)(R20), R1
	MOVD	(call_args+16)(R20), R2
	MOVD	(call_args+24)(R20), R3
	MOVD	(call_args+32)(R20), R4
	MOVD	(call_args+40)(R20), R5
	MOVD	call_trap(R20), R8
	SVC
	MOVD	R0, R22
	TST	$const_careless, R23
	BNE	done
	CMN	$4095, R0
	BCS	failed
	TST	$const_checked, R23
	BEQ	done
	MOVD	call_want(R20), R24
	CMP	R24, R0
	BEQ	done
	MOVD	$-ESRCH, R0	// nobody is there that it could be the child of
failed:
	NEG	R0, R0
	MOVW	R0, (burden_report+4)(R19)
	MOVD	call_stage(R20), R0
	MOVW	R0, burden_report(R19)
	MOVD	(burden_fault+8)(R19), R0
	ADD	$burden_report, R19, R1
	MOVD	$8, R2
	MOVD	$SYS_write, R8
	SVC
	B	exit
done:
	ADD	$call__size, R20
	SUBS	$1, R21
	BNE	next
exit:
	MOVD	$1, R0
	MOVD	$SYS_exit_group, R8
	SVC
	B	exit
