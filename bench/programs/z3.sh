# SPDX-License-Identifier: MIT
# The theorem prover z3: queens on a board as integer arithmetic, and a multiplication to be factored.
# needs: z3
# serves: z3
. "$PROGRAMS/lib.sh"

prepare() {
    {
        echo '(set-logic QF_LIA)'
        for i in $(seq 14); do
            echo "(declare-const q$i Int) (assert (and (<= 1 q$i) (<= q$i 14)))"
        done
        for i in $(seq 14); do
            for j in $(seq $((i + 1)) 14); do
                d=$((j - i))
                echo "(assert (and (not (= q$i q$j)) (not (= (- q$i q$j) $d)) (not (= (- q$j q$i) $d))))"
            done
        done
        echo '(check-sat) (reset) (set-logic QF_BV)
(declare-const a (_ BitVec 36)) (declare-const b (_ BitVec 36))
(assert (= (bvmul a b) (_ bv16613767 36))) (assert (bvugt a (_ bv1 36))) (assert (bvugt b (_ bv1 36)))
(assert (bvult a (_ bv4096 36))) (assert (bvult b (_ bv4096 36))) (check-sat)'
    } >work.smt2
}

run() {
    under z3 work.smt2 >out
    [ "$(grep -c '^sat' out)" = 2 ]
}

"$1"
