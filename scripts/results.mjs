/** Adds up the lines with which cargo's and Node's test runners close. */
export function countTests(output) {
  const total = { passed: 0, failed: 0, ignored: 0 };
  const cargo = /^test result: .*? (\d+) passed; (\d+) failed; (\d+) ignored;/gm;
  for (const [, passed, failed, ignored] of output.matchAll(cargo)) {
    total.passed += Number(passed);
    total.failed += Number(failed);
    total.ignored += Number(ignored);
  }
  const kinds = { pass: "passed", fail: "failed", cancelled: "failed", skipped: "ignored", todo: "ignored" };
  for (const [, kind, count] of output.matchAll(/^ℹ (pass|fail|cancelled|skipped|todo) (\d+)$/gm)) {
    total[kinds[kind]] += Number(count);
  }
  return total;
}
