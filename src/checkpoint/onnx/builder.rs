//! A graph under construction: nodes and constants by name. A node has the name of its only output.

use super::proto::{Attribute, FLOAT, INT64, Node, Tensor};
use crate::model::config::Activation;

#[derive(Default)]
pub struct Builder {
    pub nodes: Vec<Node>,
    pub constants: Vec<Tensor>,
}

impl Builder {
    /// A node called `name`, which is given back.
    pub fn node(&mut self, op_type: &str, name: &str, inputs: &[&str], attribute: Vec<Attribute>) -> String {
        self.nodes.push(Node {
            input: inputs.iter().map(|&input| input.to_owned()).collect(),
            output: vec![name.into()],
            name: name.into(),
            op_type: op_type.into(),
            attribute,
        });
        name.into()
    }

    /// A node without attributes.
    fn plain(&mut self, op_type: &str, name: &str, inputs: &[&str]) -> String {
        self.node(op_type, name, inputs, Vec::new())
    }

    pub fn add(&mut self, name: &str, a: &str, b: &str) -> String {
        self.plain("Add", name, &[a, b])
    }

    pub fn mul(&mut self, name: &str, a: &str, b: &str) -> String {
        self.plain("Mul", name, &[a, b])
    }

    pub fn matmul(&mut self, name: &str, a: &str, b: &str) -> String {
        self.plain("MatMul", name, &[a, b])
    }

    /// Rows of a table, by ids of any shape.
    pub fn gather(&mut self, name: &str, table: &str, ids: &str) -> String {
        self.plain("Gather", name, &[table, ids])
    }

    /// With the sizes in the tensor `shape`.
    pub fn reshape(&mut self, name: &str, x: &str, shape: &str) -> String {
        self.plain("Reshape", name, &[x, shape])
    }

    pub fn transpose(&mut self, name: &str, x: &str, perm: [i64; 4]) -> String {
        self.node("Transpose", name, &[x], vec![Attribute::ints("perm", &perm)])
    }

    /// `x Wᵀ + bias` of `[rows, in]`, with `name.weight` `[out, in]`, as Hugging Face has it, and `name.bias`.
    pub fn linear(&mut self, name: &str, x: &str) -> String {
        self.product(name, x, &format!("{name}.weight"), &format!("{name}.bias"))
    }

    /// The same with a weight and a bias of other names.
    pub fn product(&mut self, name: &str, x: &str, weight: &str, bias: &str) -> String {
        self.node("Gemm", name, &[x, weight, bias], vec![Attribute::int("transB", 1)])
    }

    /// Over the last dimension, with `name.weight` and `name.bias`.
    pub fn layer_norm(&mut self, name: &str, x: &str, epsilon: f64) -> String {
        let [weight, bias] = ["weight", "bias"].map(|part| format!("{name}.{part}"));
        let attributes = vec![Attribute::int("axis", -1), Attribute::float("epsilon", epsilon as f32)];
        self.node("LayerNormalization", name, &[x, &weight, &bias], attributes)
    }

    /// Every constant is in the graph once, and bears its value's name.
    fn constant(&mut self, name: String, dims: &[i64], data_type: i32, raw_data: Vec<u8>) -> String {
        if !self.constants.iter().any(|constant| constant.name == name) {
            self.constants.push(Tensor { dims: dims.into(), data_type, name: name.clone(), raw_data });
        }
        name
    }

    pub fn scalar(&mut self, value: f64) -> String {
        let bytes = (value as f32).to_le_bytes().to_vec();
        self.constant(format!("constant {value}"), &[], FLOAT, bytes)
    }

    pub fn integers(&mut self, values: &[i64]) -> String {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(format!("constant {values:?}"), &[values.len() as i64], INT64, bytes)
    }

    /// The formulas of `shaders/activation.wgsl`.
    pub fn activation(&mut self, function: Activation, name: &str, x: &str) -> String {
        let part = |part: &str| format!("{name}/{part}");
        let gate = match function {
            Activation::Relu => return self.plain("Relu", name, &[x]),
            Activation::Silu => {
                let logistic = self.plain("Sigmoid", &part("logistic"), &[x]);
                return self.mul(name, x, &logistic);
            }
            Activation::GeluErf => {
                let root = self.scalar(std::f64::consts::FRAC_1_SQRT_2);
                let scaled = self.mul(&part("scaled"), x, &root);
                self.plain("Erf", &part("erf"), &[&scaled])
            }
            Activation::GeluTanh => {
                let (cubic, root) = (self.scalar(0.044715), self.scalar((2.0 / std::f64::consts::PI).sqrt()));
                let square = self.mul(&part("square"), x, x);
                let cube = self.mul(&part("cube"), &square, x);
                let cube = self.mul(&part("scaled cube"), &cube, &cubic);
                let inner = self.add(&part("inner"), x, &cube);
                let inner = self.mul(&part("scaled inner"), &inner, &root);
                self.plain("Tanh", &part("tanh"), &[&inner])
            }
        };
        let (one, half) = (self.scalar(1.0), self.scalar(0.5));
        let gate = self.add(&part("gate"), &gate, &one);
        let doubled = self.mul(&part("doubled"), x, &gate);
        self.mul(name, &doubled, &half)
    }
}
