/** Why there is no distribution strategy. These words stay the same from version to version. */
export type StrategyErrorReason =
  /** No strategy was passed, or it was turned off. */
  | "not_given"
  /** The browser has no WebGPU. */
  | "no_webgpu_api"
  /** Browsers hide WebGPU from pages that came neither over https nor from localhost. */
  | "insecure_context"
  /** The browser has WebGPU, but no adapter for it. */
  | "no_adapter"
  /** There is an adapter, but it opened no device. */
  | "device_refused"
  /** There is no strategy of that name, or not here. */
  | "unsupported_strategy";

/**
 * There is no distribution strategy, so there is nothing to compute on. The message starts with
 * `Distribution strategy is not specified.`, goes on with what was found, and ends with the advice.
 *
 * ```js
 * try {
 *   const strategy = await getDistributionStrategy();
 * } catch (error) {
 *   if (error instanceof StrategyError) show(error.reason, error.advice);
 *   else throw error;
 * }
 * ```
 */
export class StrategyError extends Error {
  override readonly name = "StrategyError";
  /** The same for every reason. */
  readonly code = "DISTRIBUTION_STRATEGY_NOT_SPECIFIED";
  /** Why there is none. */
  readonly reason: StrategyErrorReason;
  /** What to do about it in this browser, for a person to read. */
  readonly advice: string;

  constructor(message: string, reason: StrategyErrorReason, advice: string) {
    super(message);
    this.reason = reason;
    this.advice = advice;
  }
}
