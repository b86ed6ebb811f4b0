import type { StrategyErrorReason } from "./strategy-error.js";

/** One adapter (a GPU, or a driver that computes on the processor) as the browser describes it. Sizes are in bytes. */
export interface Adapter {
  /** What the browser calls it. */
  readonly name: string;
  /** `software` computes on the processor and is slow; most browsers tell no more than that it is not. */
  readonly kind: "discrete GPU" | "integrated GPU" | "virtual GPU" | "software" | "unknown";
  /** The largest buffer. */
  readonly maxBufferSize: number;
  /** The largest part of a buffer that a kernel can see. */
  readonly maxStorageBufferBindingSize: number;
  /** How many buffers a kernel can see. */
  readonly maxStorageBuffersPerShaderStage: number;
  /** Invocations in a workgroup. */
  readonly maxComputeInvocationsPerWorkgroup: number;
  /** Memory a workgroup shares. */
  readonly maxComputeWorkgroupStorageSize: number;
  /** Those of `shader-f16`, `subgroups` and `timestamp-query` that it has. */
  readonly features: readonly string[];
  /** Why the kernels cannot run on it; `null` when they can. */
  readonly shortcoming: string | null;
}

/** Why there is no adapter. */
export interface Absence {
  readonly reason: StrategyErrorReason;
  /** The reason in words. */
  readonly message: string;
}

/** What there is to compute on. */
export interface Survey {
  readonly adapters: readonly Adapter[];
  /** Why there is none; empty when there is one. */
  readonly absences: readonly Absence[];
}

/**
 * Names of strategies. `auto`: what suits the adapters found; `one_device`: the best adapter; `mirrored`: a replica on
 * each of two, where the browser offers two; `off`: the error that none was given.
 */
export type StrategyName = "auto" | "one_device" | "mirrored" | "off";

/** How a run is spread over devices: what {@link getDistributionStrategy} resolves to and a run needs. */
export interface Strategy {
  readonly kind: "one_device" | "mirrored";
  /** The adapter that trains; that of the first of several replicas. */
  readonly adapter: Adapter;
  /**
   * The adapter of every replica, the first one first. One, or two with `mirrored` where the browser has a fast adapter
   * and one that saves power.
   */
  readonly replicas: readonly Adapter[];
  /** Why this one, in words. */
  readonly why: string;
  /** What a person should be told before a run starts, such as that it will be slow; `null` when there is nothing. */
  readonly notice: string | null;
}

/** Options of {@link selfTest}. */
export interface SelfTestOptions {
  /** Which kernels to test: those that hold tiles in registers, those that hold larger ones there (SwiftShader and GPUs), those that read them from textures, or those that share them in a workgroup's memory. By default the ones that suit the adapter. */
  readonly kernels?: "register" | "tile" | "texture" | "workgroup";
  /** Golden numbers by file name, instead of those that come with the package. */
  readonly files?: Readonly<Record<string, Uint8Array>>;
}

/** A tensor, or a number, against its golden counterpart. */
export interface Comparison {
  /** What is compared; measure and tolerance depend on it. */
  readonly quantity: "loss" | "logits" | "output" | "gradient" | "gradient_norm" | "parameter" | "moment";
  /** The tensor. */
  readonly name: string;
  /** Where in the test. */
  readonly case: string;
  /** The largest difference; `NaN` when something is not a number. */
  readonly error: number;
  /** The largest difference allowed. */
  readonly tolerance: number;
}

/** What {@link selfTest} found. */
export interface SelfTestReport {
  /** Is every difference within its tolerance? */
  readonly ok: boolean;
  /** The adapter's name. */
  readonly adapter: string;
  readonly kernels: "register" | "tile" | "texture" | "workgroup";
  /** How many tensors and numbers were compared. */
  readonly comparisons: number;
  /** For each quantity the comparison that came closest to its tolerance, or exceeded it most. */
  readonly worst: readonly Comparison[];
}
