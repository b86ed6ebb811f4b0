// The strategy, and the error when there is none, for real: browsers without WebGPU, without an adapter, on a page that
// they do not trust, and with a device that does not open.
import assert from "node:assert/strict";
import test from "node:test";
import { FIREFOX_WEBGPU, INSECURE_HOST, launchChromium, launchFirefox } from "./browsers.mjs";
import { call, withPage } from "./page.mjs";

function assertRejected({ thrown, value, rejected, isStrategyError }, reason, advice) {
  assert.deepEqual({ thrown, value }, { thrown: undefined, value: undefined });
  assert.ok(isStrategyError, JSON.stringify(rejected));
  assert.equal(rejected.name, "StrategyError");
  assert.equal(rejected.code, "DISTRIBUTION_STRATEGY_NOT_SPECIFIED");
  assert.equal(rejected.reason, reason);
  assert.match(rejected.message, /^Distribution strategy is not specified\. /);
  assert.ok(rejected.message.includes(rejected.advice));
  assert.match(rejected.advice, advice);
}

const withWebgpu = {
  Chromium: () => launchChromium({ webgpu: true }),
  Firefox: () => launchFirefox({ prefs: FIREFOX_WEBGPU }),
};

for (const [name, launch] of Object.entries(withWebgpu)) {
  test(`${name} has a strategy, on its software adapter`, { timeout: 120_000 }, (t) =>
    withPage({ launch }, async (page) => {
      const { value: survey } = await page.evaluate(call, ["surveyAdapters"]);
      const [adapter, ...others] = survey.adapters;
      assert.deepEqual([others, survey.absences], [[], []]);
      assert.equal(adapter.kind, "software");
      assert.equal(adapter.shortcoming, null);
      assert.ok(adapter.maxBufferSize >= 256 << 20 && adapter.maxStorageBuffersPerShaderStage >= 8);
      const { value: strategy } = await page.evaluate(call, ["getDistributionStrategy"]);
      assert.equal(strategy.kind, "one_device");
      assert.deepEqual([strategy.adapter, strategy.replicas], [adapter, [adapter]]);
      const { value: mirrored } = await page.evaluate(call, ["getDistributionStrategy", "mirrored"]);
      assert.deepEqual([mirrored.kind, mirrored.replicas], ["mirrored", [adapter]]);
      assert.match(strategy.notice, /slow/);
      t.diagnostic(`${adapter.name}; ${adapter.features}`);
    }));

  test(`${name} refuses a missing, unknown or foreign strategy`, { timeout: 120_000 }, () =>
    withPage({ launch }, async (page) => {
      for (const strategy of [null, undefined, {}, "auto"]) {
        assertRejected(await page.evaluate(call, ["selfTest", strategy]), "not_given", /getDistributionStrategy\(\)/);
      }
      assertRejected(await page.evaluate(call, ["getDistributionStrategy", "off"]), "not_given", /getDistributionStrategy/);
      for (const request of ["multi_worker_mirrored", "tpu", "parameter_server", "nonsense"]) {
        assertRejected(await page.evaluate(call, ["getDistributionStrategy", request]), "unsupported_strategy", /./);
      }
    }));

  test(`${name} on a page without a secure context`, { timeout: 120_000 }, () =>
    withPage({ launch, host: INSECURE_HOST }, async (page) => {
      assertRejected(await page.evaluate(call, ["getDistributionStrategy"]), "insecure_context", /https:\/\//);
    }));

  test(`${name} whose adapter opens no device`, { timeout: 120_000 }, () => {
    const workerPrelude = `GPUAdapter.prototype.requestDevice = async () => {
      throw new DOMException("no device today", "OperationError");
    };`;
    return withPage({ launch, workerPrelude }, async (page) => {
      const { value: strategy } = await page.evaluate(call, ["getDistributionStrategy"]);
      const result = await page.evaluate(call, ["selfTest", strategy]);
      assertRejected(result, "device_refused", /restart the browser/);
      assert.match(result.rejected.message, /no device today/);
    });
  });

  test(`${name} without navigator.gpu`, { timeout: 120_000 }, () => {
    const workerPrelude = "delete WorkerNavigator.prototype.gpu;";
    return withPage({ launch, workerPrelude }, async (page) => {
      assertRejected(await page.evaluate(call, ["getDistributionStrategy"]), "no_webgpu_api", /update|about:config/);
    });
  });
}

const withoutWebgpu = [
  ["Chromium without its flags", () => launchChromium({ webgpu: false }), "no_adapter", /chrome:\/\/gpu/],
  ["Firefox without its prefs", () => launchFirefox({ prefs: {} }), "no_webgpu_api", /dom\.webgpu\.enabled/],
  [
    "Firefox that blocks this driver",
    () => launchFirefox({ prefs: { "dom.webgpu.enabled": true } }),
    "no_adapter",
    /gfx\.webgpu\.ignore-blocklist/,
  ],
];

for (const [name, launch, reason, advice] of withoutWebgpu) {
  test(name, { timeout: 120_000 }, () =>
    withPage({ launch }, async (page) => {
      assertRejected(await page.evaluate(call, ["getDistributionStrategy"]), reason, advice);
      const { value: survey } = await page.evaluate(call, ["surveyAdapters"]);
      assert.deepEqual(survey.adapters, []);
      assert.equal(survey.absences[0].reason, reason);
    }));
}
